"""Wrong variants of operators, losses, update rules and replay rules, each of which a named test must catch."""

from tests.mutations import (
    acer,
    cluster,
    control,
    ctrace,
    distributions,
    environments,
    evidence,
    faults,
    impala,
    measures,
    networks,
    ops,
    optimizers,
    population,
    refer,
    replay,
    rows,
    runtime,
    stac,
    theorems,
)

VARIANTS = [
    variant
    for module in (
        ops,
        distributions,
        optimizers,
        networks,
        impala,
        population,
        acer,
        refer,
        ctrace,
        stac,
        theorems,
        replay,
        environments,
        control,
        runtime,
        cluster,
        faults,
        evidence,
        measures,
        rows,
    )
    for variant in module.VARIANTS
]
