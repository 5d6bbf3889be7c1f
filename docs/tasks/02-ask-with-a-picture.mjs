/** Judges docs/tasks/02-ask-with-a-picture.md. */
import { best, check, json } from './judge.mjs';

const { outputs } = await json('answer.json');
const row = outputs?.probabilities?.[0];
check(row?.length === 10, 'answer.json has ten probabilities', outputs);
check(best(row) === 3, 'the highest is that of 3', row);
