"""Reference runs that train with the present code, and the bands that judge them."""
