/** Lists nodes in error messages, shortened when there are many. */
import type { RawNode } from './raw.ts';

const SHOWN = 20;
const SHOWN_CHARACTERS = 200;

export function listNodes(nodes: readonly RawNode[]): string {
  if (nodes.length === 0) return 'none';
  const shown = nodes
    .slice(0, SHOWN)
    .map((node) => `${node.name.slice(0, SHOWN_CHARACTERS)} (${node.op.slice(0, SHOWN_CHARACTERS)})`);
  if (nodes.length > SHOWN) shown.push(`${nodes.length - SHOWN} more`);
  return shown.join(', ');
}
