"""Tables, learning curves and the report page."""
