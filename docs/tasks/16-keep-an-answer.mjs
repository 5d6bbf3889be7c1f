/** Judges docs/tasks/16-keep-an-answer.md. */
import { check, json, list } from './judge.mjs';

const names = (await list('model/golden')).filter((name) => name.endsWith('.json'));
check(names.length > 0, 'model/golden has a request', names);
const { instances, outputs, predictions } = await json(`model/golden/${names[0]}`);
check(Array.isArray(instances) && instances.length > 0, 'it has instances', instances);
check((outputs ?? predictions) !== undefined, 'it has the answer', Object.keys({ outputs, predictions }));
