/** Judges docs/tasks/09-see-the-figures.md. */
import { check, read } from './judge.mjs';

const text = await read('metrics.txt');
check(
  /^# TYPE cluster_serving_requests_total counter$/m.test(text),
  'it is the text form of Prometheus',
  text.slice(0, 200),
);
check(/^cluster_serving_requests_total\{.*\} \d+/m.test(text), 'requests are counted', text.slice(0, 200));
