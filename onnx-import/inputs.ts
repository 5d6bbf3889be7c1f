/** What to ask a model with. An entry apart from index.ts, because it loads onnxruntime: for code within a ModelProcess. */
export { matched, referenceTensors } from './samples/reference.ts';
export { type SingleRowOptions, singleRows } from './samples/single-rows.ts';
export { elementsOf } from './samples/work.ts';
