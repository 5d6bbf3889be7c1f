/** Judges docs/tasks/10-convert-a-model.md. */
import { check, json, list } from './judge.mjs';

const names = await list('keras-model-onnx');
check(names.includes('model.onnx'), 'there is model.onnx', names);
const report = await json('keras-model-onnx/import-report.json');
check(report.inputs?.[0]?.name === 't', 'its input is t', report.inputs);
