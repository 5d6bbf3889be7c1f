/** Judges docs/tasks/18-say-what-it-will-cost.md. */
import { check, json } from './judge.mjs';

const { load, limits, bill } = await json('plan.json');
check(load.perDay === 5e6 && load.peakPerSecond > 170, 'it is for five million a day with their peak', load);
check(limits[0]?.name === 'memory of Redis', 'it names the first limit', limits[0]);
check(bill.together.queue > 0, 'it has a bill', bill.together);
