/** Errors as OpenAI's API answers them; `code` is ours. */
import type { ErrorBody } from '../response.ts';

export const openAIError: ErrorBody = ({ status, publicMessage, code }) => ({
  error: {
    message: publicMessage,
    type: status === 429 ? 'rate_limit_error' : status < 500 ? 'invalid_request_error' : 'server_error',
    param: null,
    code,
  },
});
