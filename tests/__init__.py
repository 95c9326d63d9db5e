"""The tests: they mirror gputop/; nvml_stub/ holds a simulated NVML library that any of them may use."""
