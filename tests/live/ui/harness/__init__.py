"""What is needed to try spanscore with a real tracing UI; `harness.tool` says what a further UI has
to bring.
"""
