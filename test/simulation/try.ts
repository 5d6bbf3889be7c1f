import { Simulator } from './simulate.ts';
const sim = await Simulator.open();
const [from, to] = process.argv.slice(2).map(Number);
let virtual = 0;
const t0 = process.cpuUsage();
for (let seed = from!; seed <= to!; seed++) {
  const t = performance.now();
  const { history, violations, virtualMs, events } = await sim.seed(seed);
  virtual += virtualMs;
  console.log(seed, (virtualMs/60000).toFixed(0)+' min', events+' events', (performance.now()-t).toFixed(0)+' ms', history.enqueues.length+' enq', history.outcomes.length+' out', violations.length ? violations.slice(0,3).map(v=>v.invariant+': '+v.text).join(' | ') : 'ok');
  if (from===to) for (const l of history.lines) console.log((l.atMs/1000).toFixed(3), l.text);
}
const c = process.cpuUsage(t0);
console.log('virtual hours', virtual/3.6e6, 'cpu s', (c.user+c.system)/1e6);
process.exit(0);
