/** How onnx-import speaks of this service, of which it knows nothing. */
import type { ServiceWords } from '../onnx-import/index.ts';

export const SERVICE: ServiceWords = {
  settings: 'config.yaml',
  predict: 'npx cluster-serving predict',
  url: 'http://localhost:10020/predict',
};
