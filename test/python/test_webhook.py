"""cluster_serving.unwrap, with the published example of Standard Webhooks."""
import unittest

from cluster_serving import ServingError, unwrap

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
NOW = 1614265330
BODY = '{"test": 2432232314}'
HEADERS = {"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": str(NOW),
           "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}


def code_of(*given, **more):
    try:
        unwrap(*given, **more)
    except ServingError as error:
        return error.code
    return None


class Unwrap(unittest.TestCase):
    def test_what_was_signed_is_opened(self):
        for body in (BODY, BODY.encode()):
            event = unwrap(body, HEADERS, f"{OTHER} {SECRET}", now=NOW + 299)
            self.assertEqual(event, {"test": 2432232314, "id": HEADERS["Webhook-Id"]})

    def test_anything_else_is_refused(self):
        changed = lambda name, text: {**HEADERS, name: text}
        for body, headers, secret, now in [
            (BODY + " ", HEADERS, SECRET, NOW), (BODY, HEADERS, OTHER, NOW), (BODY, HEADERS, SECRET, NOW + 301),
            (BODY, HEADERS, SECRET, NOW - 301), (BODY, {}, SECRET, NOW), ("x" * 2_000_000, HEADERS, SECRET, NOW),
            (BODY, changed("Webhook-Id", "msg_2"), SECRET, NOW), (BODY, changed("webhook-timestamp", "nan"), SECRET, NOW),
            (BODY, changed("webhook-signature", "v1,***"), SECRET, NOW),
            (BODY, changed("webhook-signature", "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), SECRET, NOW),
        ]:
            self.assertEqual(code_of(body, headers, secret, now=now), "unauthorized")

    def test_a_text_that_is_no_secret_is_refused(self):
        for secret in ("", "whsec_", "hunter2", "whsec_c2hvcnQ="):
            self.assertEqual(code_of(BODY, HEADERS, secret, now=NOW), "bad_config")


if __name__ == "__main__":
    unittest.main()
