/** Walks the syntax trees of parsers that give their nodes a type. */

export interface TreeNode {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Nodes in a node, in the order of its keys. */
export function childrenOf<N extends TreeNode>(node: N): N[] {
  return Object.values(node)
    .flat()
    .filter((value): value is N => typeof (value as N | null)?.type === 'string');
}
