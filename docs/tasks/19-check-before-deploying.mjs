/** Judges docs/tasks/19-check-before-deploying.md. */
import { check, json } from './judge.mjs';

const report = await json('doctor.json');
check(report.counts?.error === 0, 'there is no error', report.counts);
check(report.capacity?.recordsPerDay > 0, 'it says how much fits', report.capacity);
