"""Directory service discovery: clients, servers, packets."""
