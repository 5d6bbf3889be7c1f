/**
 * `node bench/profile.ts <file.cpuprofile>`, made by `node --cpu-prof bench/run.ts single`. In: a V8 CPU profile.
 * Out: where the time of lib/ and functions/ went: by function and by line, self and with what it called.
 * Trap: V8 counts a native call (JSON.parse, Buffer.from) to the JavaScript line that made it only in the line ticks;
 * by function it is an entry of its own, so it is listed under its caller here. Time spent waiting is "(idle)".
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

interface Node {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children?: readonly number[];
  readonly positionTicks?: readonly { readonly line: number; readonly ticks: number }[];
}

interface Profile {
  readonly nodes: readonly Node[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SHOWN = 30;
const OURS = /^(lib|functions)\//;

/** `lib/codecs/base64.ts:35 decodeExactly`, or a name alone for what is not ours. */
function labelOf({ callFrame: { functionName, url, lineNumber } }: Node): string {
  const name = functionName || '(anonymous)';
  if (url === '') return name;
  const path = url.startsWith('file:') ? fileURLToPath(url).replace(ROOT, '') : url;
  return `${path}:${lineNumber + 1} ${name}`;
}

function main(file: string): void {
  const profile = JSON.parse(readFileSync(file, 'utf8')) as Profile;
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map<number, number>();
  for (const { id, children = [] } of profile.nodes) for (const child of children) parents.set(child, id);
  const self = new Map<number, number>();
  for (const [i, id] of profile.samples.entries())
    self.set(id, (self.get(id) ?? 0) + (profile.timeDeltas[i] ?? 0));
  const total = [...self.values()].reduce((sum, us) => sum + us, 0);
  const byFunction = new Map<string, number>();
  const withCalled = new Map<string, number>();
  const byLine = new Map<string, number>();
  const add = (map: Map<string, number>, key: string, us: number) => map.set(key, (map.get(key) ?? 0) + us);
  for (const [id, us] of self) {
    const path: Node[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at))
      path.push(nodes.get(at) as Node);
    const labels = path.map(labelOf);
    const [own = '', caller = ''] = labels;
    add(
      byFunction,
      OURS.test(own) ? own : `${own}  <- ${labels.find((label) => OURS.test(label)) ?? caller}`,
      us,
    );
    for (const label of new Set(labels)) if (OURS.test(label)) add(withCalled, label, us);
  }
  const tickUs = total / profile.samples.length;
  for (const node of profile.nodes) {
    const label = labelOf(node);
    if (!OURS.test(label)) continue;
    for (const { line, ticks } of node.positionTicks ?? [])
      add(
        byLine,
        `${label.slice(0, label.indexOf(':'))}:${line} ${node.callFrame.functionName}`,
        ticks * tickUs,
      );
  }
  print('self, and what is not ours under its nearest caller of ours', byFunction, total);
  print('with everything it called', withCalled, total);
  print('by line, self', byLine, total);
}

function print(title: string, times: ReadonlyMap<string, number>, total: number): void {
  console.log(`\n${title}`);
  const sorted = [...times].sort((a, b) => b[1] - a[1]).slice(0, SHOWN);
  for (const [label, us] of sorted) {
    const share = ((100 * us) / total).toFixed(1).padStart(5);
    console.log(`${share} %  ${(us / 1000).toFixed(0).padStart(7)} ms  ${label}`);
  }
}

const [file] = process.argv.slice(2);
if (file) main(file);
else console.error('usage: node bench/profile.ts <file.cpuprofile>');
