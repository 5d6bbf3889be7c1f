/** Which ONNX models have labels that only an import can store beside them. */
import { join } from 'node:path';
import { labelsBeside } from '../../lib/registry/names.ts';
import { dimsOf, readOnnx } from '../onnx/facts.ts';
import { onnxLabels } from '../onnx/labels.ts';
import { messageOf, messagesOf } from '../wire/message.ts';

/**
 * Whether an import finds labels that a function does not: a function reads only the files beside the model, and knows no size
 * that the file leaves free. Such a model is imported before it serves, so that every command shows what it answers.
 */
export async function hasLabelsToStore(folder: string, file: string): Promise<boolean> {
  try {
    const model = readOnnx(join(folder, file));
    const { labels, byOutput } = onnxLabels(model);
    if (labels || Object.keys(byOutput).length > 0) return true;
    if (!(await labelsBeside(folder))) return false;
    const graph = messageOf(model, 'graph');
    return (graph ? messagesOf(graph, 'outputs') : []).some((output) => dimsOf(output).at(-1) === 0);
  } catch {
    // What is wrong with the files is reported by the opening.
    return false;
  }
}
