"""The checker of the chaos suites, against histories made by hand."""
