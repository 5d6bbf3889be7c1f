/** Judges docs/tasks/14-the-two-best.md. */
import { base64, check, post } from './judge.mjs';

const { predictions } = await post('/predict', {
  instances: [{ image: { b64: await base64('images/digit-3.png') } }],
});
const [pairs] = [...(predictions ?? [])].map((text) =>
  JSON.parse(/^\{value=(.*)\}$/.exec(text)?.[1] ?? 'null'),
);
check(pairs?.length === 2, 'there are two pairs', predictions);
check(pairs[0][0] === 3, 'the first is the digit', pairs);
