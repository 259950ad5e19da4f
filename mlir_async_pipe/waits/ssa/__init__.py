"""Values threaded through control flow: what a rewrite carries from where it is known to where
it is asked for."""
