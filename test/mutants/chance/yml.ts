/** Finds places in YAML by its syntax tree: numbers, truth values, and keys that may be missing. */
import { isMap, isPair, isScalar, type Node, parseDocument, visit } from 'yaml';
import { otherNumber, type Place } from './place.ts';

/**
 * @returns in the order of the text
 * @throws unless it is YAML
 */
export function placesInYml(text: string): Place[] {
  const document = parseDocument(text, { logLevel: 'silent' });
  if (document.errors[0] !== undefined) throw document.errors[0];
  const places: Place[] = [];
  visit(document, {
    Scalar(key, { value, range }) {
      if (key === 'key' || !range) return;
      const add = (bug: string) => places.push({ start: range[0], end: range[1], bug, kind: 'constant' });
      if (typeof value === 'boolean') add(String(!value));
      if (typeof value === 'number') add(otherNumber(value));
    },
    Map(_, { items, flow }) {
      if (flow || items.length < 2) return;
      for (const item of items) {
        if (!isPair(item) || !isScalar(item.key) || !item.key.range) continue;
        const value = item.value as Node | null;
        if (!value?.range || isMap(value)) continue;
        places.push({ start: item.key.range[0], end: value.range[1], bug: '', kind: 'call' });
      }
    },
  });
  return places.sort((a, b) => a.start - b.start || a.end - b.end);
}
