"""Non-rigid point set registration by partial distribution matching (PWAN, Wang et al., ICLR 2022)."""
