"""Sends notifications to webhooks: message bodies, allowed addresses, delivery and retries."""
