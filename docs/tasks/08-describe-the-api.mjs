/** Judges docs/tasks/08-describe-the-api.md. */
import { check, json } from './judge.mjs';

const { openapi, paths } = await json('openapi.json');
check(openapi?.startsWith('3.1.'), 'it is OpenAPI 3.1', openapi);
check(paths?.['/predict']?.post !== undefined, 'it describes POST /predict', Object.keys(paths ?? {}));
check(JSON.stringify(paths['/predict']).includes('image'), 'it knows the input "image"', '/predict');
