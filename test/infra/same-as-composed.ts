/** Holds test/infra/compose.ts to what osls really makes. */
import assert from 'node:assert/strict';
import type { Template } from '../support/template.ts';

/** Resources that osls adds and no check asks for. */
const ADDED = ['AWS::Lambda::Permission', 'AWS::Lambda::Version'];

/** The folder of an archive is named after the time. */
const comparable = <T>(part: T): T =>
  JSON.parse(JSON.stringify(part).replaceAll(/"serverless\/[^"]*?([a-z-]+\.zip)"/g, '"$1"')) as T;

/** Every resource and output as they were composed; osls may know more properties of its own. */
export function assertComposed(packaged: Template, composed: Template): void {
  for (const [name, resource] of Object.entries(packaged.Resources)) {
    const ours = composed.Resources[name];
    if (ours === undefined) assert.ok(ADDED.includes(resource.Type), name);
    else assert.partialDeepStrictEqual(comparable(resource), comparable(ours), name);
  }
  for (const name of Object.keys(composed.Resources)) assert.ok(name in packaged.Resources, name);
  assert.deepEqual(Object.keys(packaged.Outputs).sort(), Object.keys(composed.Outputs).sort());
  assert.partialDeepStrictEqual(packaged.Outputs, composed.Outputs);
}
