"""What must come out, said in the plainest way that can be thought of, to hold the real thing against."""
