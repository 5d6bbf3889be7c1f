/** Every route of the HTTP API. The single machine serves these, and the deployment creates them in API Gateway. */

/** The deployed functions that answer HTTP; `submit` is the bundle of `predictions`, outside the VPC. */
export type RoutedFunction = 'predict' | 'submit' | 'predictions' | 'status';

export interface Route {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  /** As API Gateway writes it; `{name+}` takes the rest of the path, slashes included. */
  readonly path: string;
  readonly function: RoutedFunction;
}

const PATHS: readonly (readonly [path: string, name: RoutedFunction, ...methods: Route['method'][]])[] = [
  ['/predict', 'predict', 'POST'],
  // Embeddings, as OpenAI's API has them.
  ['/v1/embeddings', 'predict', 'POST'],
  // TensorFlow Serving's API. Greedy for the same reason as the next.
  ['/v1/models/{path+}', 'predict', 'POST', 'GET'],
  ['/v1/models', 'predict', 'GET'],
  // The Open Inference Protocol. Greedy, so that unknown paths are refused with the protocol's own errors.
  ['/v2/{path+}', 'predict', 'POST', 'GET', 'HEAD'],
  ['/v2', 'predict', 'GET', 'HEAD'],
  // The worker service. The single machine answers the status itself, with statistics.
  ['/encode', 'predict', 'POST'],
  ['/encode_json', 'predict', 'POST'],
  ['/encode_img_bytes', 'predict', 'POST'],
  ['/v1/encode_img_bytes', 'predict', 'POST'],
  ['/encode_img_url', 'predict', 'POST'],
  ['/status/server', 'predict', 'GET'],
  ['/predictions', 'submit', 'POST'],
  ['/predictions', 'predictions', 'GET', 'HEAD', 'DELETE'],
  // Greedy: API Gateway decodes the path before it looks for a route, and a uri may contain a slash.
  ['/predictions/{uri+}', 'predictions', 'GET', 'HEAD', 'DELETE'],
  ['/status', 'predictions', 'GET'],
  ['/cancel', 'predictions', 'POST'],
  ['/', 'status', 'GET', 'HEAD'],
  ['/metrics', 'status', 'GET', 'HEAD'],
  ['/ready', 'status', 'GET', 'HEAD'],
];

export const ROUTES: readonly Route[] = PATHS.flatMap(([path, name, ...methods]) =>
  methods.map((method) => ({ method, path, function: name })),
);
