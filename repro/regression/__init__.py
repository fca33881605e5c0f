"""Reference runs that train with the code as it is, and the bands that judge them."""
