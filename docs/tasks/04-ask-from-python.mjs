/** Judges docs/tasks/04-ask-from-python.md. */
import { check, read } from './judge.mjs';

const text = await read('class.txt');
check(/^\D*3\b/.test(text), 'the first number of class.txt is 3', text);
