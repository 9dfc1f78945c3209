"""Sends notifications to webhooks: what is sent, where it may go, and when it is tried again."""
