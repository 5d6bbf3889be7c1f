/** Judges docs/tasks/13-let-colleagues-call.md. */
import { check, read } from './judge.mjs';

const [port, token] = [await read('port.txt'), await read('token.txt')].map((text) => text.trim());
const ask = (headers) => fetch(`http://127.0.0.1:${port}/ready`, { headers });
const refused = await ask({}).catch((error) =>
  check(false, `port ${port} answers`, String(error.cause ?? error)),
);
check(refused.status === 401, 'it refuses without a token', refused.status);
const answered = await ask({ authorization: `Bearer ${token}` });
check(answered.status === 200, 'it answers with the token', answered.status);
