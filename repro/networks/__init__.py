"""Networks by domain: torsos, recurrent cores, and the heads on top of them."""
