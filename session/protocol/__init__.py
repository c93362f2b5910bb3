"""What both ends of a session agree on: settings, policy, states, frames, timers, events."""
