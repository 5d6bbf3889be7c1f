/** Judges docs/tasks/11-keep-an-old-program.md. */
import { check, get, read } from './judge.mjs';

const text = await read('old.txt');
check(/\b3\b/.test(text), 'the program found a 3', text);
const { status } = await get('/predictions/black').catch(() => ({ status: undefined }));
check(status === undefined, 'it took its results', { status });
