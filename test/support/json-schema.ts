/** Compares documents with JSON Schemas, those of OpenAPI 3.1 among them. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

/** The official schema of documents, of 2022-10-07. */
const OFFICIAL = new URL('../fixtures/openapi-3.1.schema.json', import.meta.url);

function validator() {
  return new Ajv2020({ strict: false, validateFormats: false, allErrors: false });
}

async function compileOfficial() {
  const official = await readFile(OFFICIAL, 'utf8');
  // Ajv looks for the anchor in the wrong place. Behind it is any schema, which is compared with its own dialect below.
  const text = official.replaceAll(/"\$dynamicRef": "#meta"/g, '"$ref": "#/$defs/schema"');
  const ajv = validator();
  return { ajv, validate: ajv.compile(JSON.parse(text) as object) };
}

/** Compiled once, because that takes longer than all else here. */
let compiled: ReturnType<typeof compileOfficial> | undefined;

/** @throws AssertionError with the first thing that is wrong */
export async function assertOpenApi(document: object): Promise<void> {
  compiled ??= compileOfficial();
  const { ajv, validate } = await compiled;
  assert.ok(validate(document), JSON.stringify(validate.errors?.slice(0, 3)));
  const { components } = document as {
    readonly components: { readonly schemas: Readonly<Record<string, object>> };
  };
  for (const [name, schema] of Object.entries(components.schemas))
    assert.ok(ajv.validateSchema(schema), `${name}: ${JSON.stringify(ajv.errors?.slice(0, 3))}`);
}

/** @returns what compares a value with a schema of the document */
export function schemaChecks(document: object): (schema: object, value: unknown, what: string) => void {
  const ajv = validator();
  ajv.addSchema({ $id: 'document', ...document });
  const known = new Map<string, ValidateFunction>();
  return (schema, value, what) => {
    const own = JSON.stringify(schema).replaceAll('"#/', '"document#/');
    const validate = known.get(own) ?? ajv.compile(JSON.parse(own) as object);
    known.set(own, validate);
    assert.ok(
      validate(value),
      `${what}: ${JSON.stringify(validate.errors?.slice(0, 3))} in ${JSON.stringify(value)}`,
    );
  };
}
