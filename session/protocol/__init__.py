"""The protocol between both ends of a session: settings, policy, states, frames, timers, events."""
