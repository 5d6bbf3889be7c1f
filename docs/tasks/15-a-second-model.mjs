/** Judges docs/tasks/15-a-second-model.md. */
import { check, get, read } from './judge.mjs';

const url = (await read('largest.txt')).trim();
const answer = await fetch(`${url}/predict`, {
  method: 'POST',
  body: '{"instances": [{"t": [0.1, 0.2, 0.9, 0.3]}]}',
});
const text = await answer.text();
check(answer.status === 200, 'the second model answers', text);
check((await get('/ready')).ready === true, 'the first is still there', 'GET /ready');
