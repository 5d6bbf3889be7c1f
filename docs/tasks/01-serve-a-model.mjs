/** Judges docs/tasks/01-serve-a-model.md. */
import { best, check, get, picture, post } from './judge.mjs';

const { ready } = await get('/ready');
check(ready === true, 'the service is ready', { ready });
const { outputs } = await post('/predict', await picture('digit-3.png'));
check(best(outputs.probabilities[0]) === 3, 'a picture of a 3 is a 3', outputs);
