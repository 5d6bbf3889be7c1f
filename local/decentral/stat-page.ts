/** The page /stat of a supervisor: how many clients run, and what they have done. It holds numbers alone. */
import type { Supervisor } from './supervisor.ts';

const SECOND_MS = 1000;

export function statPage(totals: ReturnType<Supervisor['totals']>, uptimeMs: number): string {
  const seconds = Math.floor(uptimeMs / SECOND_MS);
  const rows = [
    ['Clients', totals.clients],
    ['Running', totals.running],
    ['Restarts', totals.restarts],
    ['∑Done', totals.done],
    ['∑Failed', totals.failed],
    ['Uptime', `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min ${seconds % 60} s`],
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="10"><title>Clients</title>
<style>body{font-family:sans-serif;margin:2em}td{padding:.2em 1em;border-bottom:1px solid #ccc}td+td{text-align:right}</style>
</head><body><h1>Clients</h1><table>
${rows.map(([name, value]) => `<tr><td>${name}</td><td>${value}</td></tr>`).join('\n')}
</table></body></html>
`;
}
