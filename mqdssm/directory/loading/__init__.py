"""Many changes in one go: pipelined, with an outcome for each of them."""
