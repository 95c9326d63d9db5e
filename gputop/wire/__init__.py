"""How records travel: where the parties meet (places), who is there (cards), what goes over the socket (framing)."""
