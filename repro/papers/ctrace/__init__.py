"""C-trace: adaptive trade-offs in off-policy learning (Rowland et al., 2020)."""
