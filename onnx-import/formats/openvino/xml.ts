/**
 * Reads the XML of an OpenVINO model as plain elements. Document types and entities of a file are refused: a hostile
 * one expands them to gigabytes, and OpenVINO writes none.
 */
import { XMLParser, XMLValidator } from 'fast-xml-parser';
import { badModel } from '../../../lib/contract/errors.ts';

export interface Element {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly Element[];
  readonly text: string;
}

/** Bodies of loops nest eight elements deep for each level. */
const MAX_DEPTH = 200;
const ATTRIBUTES = ':@';

const PARSER = new XMLParser({
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: '',
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: false,
  ignoreDeclaration: true,
  ignorePiTags: true,
  maxNestedTags: MAX_DEPTH,
});

/** @throws bad_model naming `file` when the text is no XML or has a document type */
export function readXml(text: string, file: string): Element {
  if (/<!(DOCTYPE|ENTITY)/i.test(text)) throw badModel(`${file}: has a document type, which is not read`);
  let made: unknown;
  try {
    const valid = XMLValidator.validate(text);
    if (valid !== true) throw new Error(`${valid.err.msg} (line ${valid.err.line})`);
    made = PARSER.parse(text);
  } catch (error) {
    throw badModel(`${file}: is no XML: ${(error as Error).message}`, { cause: error });
  }
  const roots = elementsOf(made);
  const [root] = roots;
  if (!root || roots.length > 1) throw badModel(`${file}: has ${roots.length} outermost elements, needs one`);
  return root;
}

/** In the parser's ordered form a node is `{ name: children, ':@': attributes }`. */
function elementsOf(nodes: unknown): Element[] {
  if (!Array.isArray(nodes)) return [];
  return (nodes as readonly Readonly<Record<string, unknown>>[]).flatMap((node) => {
    const name = Object.keys(node).find((key) => key !== ATTRIBUTES);
    if (name === undefined || name.startsWith('#')) return [];
    const attributes = Object.entries((node[ATTRIBUTES] ?? {}) as Record<string, string>);
    return [
      {
        name,
        attributes: new Map(attributes.map(([key, value]) => [key, unescaped(value)])),
        children: elementsOf(node[name]),
        text: textOf(node[name]),
      },
    ];
  });
}

function textOf(nodes: unknown): string {
  const parts = Array.isArray(nodes) ? (nodes as readonly Readonly<Record<string, string>>[]) : [];
  return parts.map((part) => part['#text'] ?? '').join('');
}

const ESCAPES: ReadonlyMap<string, string> = new Map(
  Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }),
);

/** The five escapes that every XML has, and numbered characters. */
function unescaped(text: string): string {
  return text.replaceAll(/&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z]{1,4});/gi, (whole, what: string) => {
    if (!what.startsWith('#')) return ESCAPES.get(what) ?? whole;
    const code = /^#x/i.test(what) ? Number.parseInt(what.slice(2), 16) : Number(what.slice(1));
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
  });
}

export function childOf(element: Element | undefined, name: string): Element | undefined {
  return element?.children.find((child) => child.name === name);
}

export function childrenOf(element: Element | undefined, name: string): readonly Element[] {
  return element?.children.filter((child) => child.name === name) ?? [];
}
