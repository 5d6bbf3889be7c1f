/** How errors of the worker service are answered. */
import type { ErrorBody } from '../response.ts';

/** `error_code` is the HTTP status, 0 for success; `code` is ours. */
export const errorEnvelope: ErrorBody = ({ status, publicMessage, code }) => ({
  error_code: status,
  error_message: publicMessage,
  data: null,
  code,
});
