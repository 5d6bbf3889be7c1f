/**
 * Finds the route and parameters of a raw request path. API Gateway decodes the whole path before it looks for a
 * route (github.com/hotsock/voker pull 8, aws/aws-lambda-dotnet pull 1901): /predictions/a%2Fb becomes
 * /predictions/a/b, which only the greedy {uri+} matches. A decoded ? even ends the path.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { APIGatewayProxyEventV2, APIGatewayProxyResultV2, Context } from 'aws-lambda';
import { badConfig } from '../../lib/contract/errors.ts';
import type { InvocationClock } from '../../lib/pipeline/deadline.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'ANY'] as const;
type RouteMethod = (typeof METHODS)[number];

/** API Gateway's default quota for one API. */
const MAX_ROUTES = 300;

export interface GatewayRoute {
  readonly method: RouteMethod;
  /** `/predictions/{uri}`; `{uri+}` as the last part matches the rest of the path, slashes included. */
  readonly path: string;
  readonly handler: (
    event: APIGatewayProxyEventV2,
    context: Context & InvocationClock,
  ) => Promise<APIGatewayProxyResultV2<unknown>>;
  /** The function's name in the context. Default: the route's path without slashes and braces. */
  readonly functionName?: string;
  /** The function's timeout in ms, default the gateway's. If it is shorter, the answer is 500. */
  readonly timeoutMs?: number;
  /** Called before a request's body is read; true answers 429. */
  readonly refuses?: () => boolean;
  /** True: has its own slots, so it answers even when all others are taken. For short handlers such as /ready. */
  readonly ownSlots?: boolean;
  /** True if a request waits for a result. Such requests have slots of their own. */
  readonly waits?: (headers: Readonly<Record<string, string>>, query: string) => boolean;
  /** Called when clients of this route have left, or may have. */
  readonly onLeave?: () => void;
  /**
   * Answers itself, without a limit of bytes or time: it reads the body from the request as it arrives. Called instead of the handler.
   * @returns an answer that is written for it; undefined when it has written its own
   */
  readonly stream?: (
    request: IncomingMessage,
    response: ServerResponse,
    event: APIGatewayProxyEventV2,
  ) => Promise<APIGatewayProxyResultV2 | undefined>;
  /** The limit of a body and of an answer, in bytes, instead of those of API Gateway and Lambda. */
  readonly maxBytes?: number;
  /** True for a request that needs no token, because what it answers holds nothing of the service. */
  readonly isOpen?: (headers: Readonly<Record<string, string>>) => boolean;
  /** True: the gateway's own errors have the envelope of the worker service, `{error_code, error_message, data}`. */
  readonly hasEnvelope?: boolean;
}

type Part =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'one' | 'rest'; readonly name: string };

interface Pattern {
  readonly route: GatewayRoute;
  readonly parts: readonly Part[];
}

export interface RouteTable {
  /** "GET /metrics" -> route, for paths without parameters. */
  readonly exact: ReadonlyMap<string, GatewayRoute>;
  /** Routes with parameters, the most specific first. */
  readonly patterns: readonly Pattern[];
}

export interface RouteMatch {
  readonly route: GatewayRoute;
  readonly pathParameters: Record<string, string> | undefined;
}

export function compileRoutes(routes: readonly GatewayRoute[]): RouteTable {
  const problems: string[] = [];
  const exact = new Map<string, GatewayRoute>();
  const patterns: Pattern[] = [];
  const shapes = new Set<string>();
  if (routes.length > MAX_ROUTES) problems.push(`${routes.length} routes; API Gateway takes ${MAX_ROUTES}`);
  for (const route of routes.slice(0, MAX_ROUTES)) {
    const key = `${route.method} ${route.path}`;
    const parts = parsePath(route.path, problems);
    if (!METHODS.includes(route.method))
      problems.push(`${key}: the method must be one of ${METHODS.join(', ')}`);
    const shape = `${route.method} ${parts.map((part) => (part.kind === 'literal' ? part.text : part.kind)).join('/')}`;
    if (shapes.has(shape)) problems.push(`${key}: another route takes the same requests`);
    shapes.add(shape);
    if (parts.every((part) => part.kind === 'literal')) exact.set(key, route);
    else patterns.push({ route, parts });
  }
  if (problems.length > 0) throw badConfig(`routes: ${problems.join('; ')}`);
  return { exact, patterns: patterns.sort(bySpecificity) };
}

/** The decoded path, or undefined for malformed percent signs (API Gateway answers 400). */
export function decodePath(rawPath: string): string | undefined {
  if (!rawPath.includes('%')) return rawPath;
  let path: string;
  try {
    path = decodeURIComponent(rawPath);
  } catch {
    return undefined;
  }
  const end = path.indexOf('?');
  return end < 0 ? path : path.slice(0, end);
}

export function findRoute(table: RouteTable, method: string, path: string): RouteMatch | undefined {
  const exact = table.exact.get(`${method} ${path}`) ?? table.exact.get(`ANY ${path}`);
  if (exact !== undefined) return { route: exact, pathParameters: undefined };
  if (table.patterns.length === 0) return undefined;
  const segments = path.slice(1).split('/');
  for (const { route, parts } of table.patterns) {
    if (route.method !== method && route.method !== 'ANY') continue;
    const pathParameters = matchParts(parts, segments);
    if (pathParameters !== undefined) return { route, pathParameters };
  }
  return undefined;
}

function parsePath(path: string, problems: string[]): Part[] {
  if (!path.startsWith('/')) problems.push(`${path}: the path must start with /`);
  const names = new Set<string>();
  const segments = path.slice(1).split('/');
  return segments.map((segment, index): Part => {
    const [, name, plus] = /^\{([A-Za-z0-9._-]+)(\+?)\}$/.exec(segment) ?? [];
    if (name === undefined) {
      if (/[{}]/.test(segment)) problems.push(`${path}: ${segment} must be {name} or {name+}`);
      return { kind: 'literal', text: segment };
    }
    if (names.has(name)) problems.push(`${path}: {${name}} occurs twice`);
    names.add(name);
    if (plus === '+' && index < segments.length - 1) problems.push(`${path}: {${name}+} must come last`);
    return { kind: plus === '+' ? 'rest' : 'one', name };
  });
}

function matchParts(parts: readonly Part[], segments: readonly string[]): Record<string, string> | undefined {
  const greedy = parts.at(-1)?.kind === 'rest';
  if (greedy ? segments.length < parts.length : segments.length !== parts.length) return undefined;
  const values: [string, string][] = [];
  for (const [index, part] of parts.entries()) {
    const segment = segments[index] ?? '';
    if (part.kind === 'literal') {
      if (part.text !== segment) return undefined;
      continue;
    }
    const value = part.kind === 'rest' ? segments.slice(index).join('/') : segment;
    if (value === '') return undefined;
    values.push([part.name, value]);
  }
  return Object.fromEntries(values);
}

const RANK = { literal: 0, one: 1, rest: 2 } as const;

/** Orders literals before {name} before {name+}, from the left, and methods before ANY. */
function bySpecificity(a: Pattern, b: Pattern): number {
  const depth = Math.max(a.parts.length, b.parts.length);
  for (let index = 0; index < depth; index += 1) {
    const left = a.parts[index];
    const right = b.parts[index];
    const difference =
      (left === undefined ? 3 : RANK[left.kind]) - (right === undefined ? 3 : RANK[right.kind]);
    if (difference !== 0) return difference;
  }
  return Number(a.route.method === 'ANY') - Number(b.route.method === 'ANY');
}
