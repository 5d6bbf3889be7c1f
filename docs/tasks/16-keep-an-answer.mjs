/** Judges docs/tasks/16-keep-an-answer.md. */
import { best, check, json, list, post } from './judge.mjs';

const names = (await list('model/golden')).filter((name) => name.endsWith('.json'));
check(names.length > 0, 'model/golden has a request', names);
const { instances, predictions } = await json(`model/golden/${names[0]}`);
check(Array.isArray(instances) && instances.length > 0, 'it has instances', instances);
// The numbers of all classes, or with topN the pairs of the best.
const value = JSON.parse(/\{value=(.*)\}$/.exec(predictions?.[0])?.[1] ?? 'null');
const digit = Array.isArray(value) ? value[0]?.[0] : best(value?.data);
check(digit === 3, 'it has the answer, a 3', predictions);
const { predictions: now } = await post('/predict', { instances });
check(JSON.stringify(now) === JSON.stringify(predictions), 'the service answers its request like that', now);
