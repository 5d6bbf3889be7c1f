/**
 * Small JPEGs of one 20x12 image, and what OpenCV 5.0 decodes them to (RGB).
 * Made with Pillow and OpenCV: red = x * 12, green = y * 20, blue = (x + y) * 7, then `Image.fromarray(a).save(f,
 * 'JPEG', quality=75, optimize=True, ...)` with subsampling='4:2:0'; progressive=True and '4:2:2'; '4:4:4' and
 * restart_marker_blocks=1; convert('L'); keep_rgb=True; convert('CMYK'). Expected values from `cv2.imdecode(bytes,
 * cv2.IMREAD_COLOR)[..., ::-1]`.
 */
import assert from 'node:assert/strict';
import type { Pixels } from '../../lib/codecs/image/pixels.ts';

export interface SmallJpeg {
  readonly name: string;
  readonly bytes: Buffer;
  /** Pixels at x,y = 0,0; 19,0; 0,11 and 10,6. */
  readonly corners: readonly (readonly number[])[];
  /** Sum of all 720 values. */
  readonly sum: number;
}

export const SMALL_JPEGS: readonly SmallJpeg[] = [
  {
    name: 'baseline420',
    bytes: Buffer.from(
      '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAMABQDASIAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABgAH/8QAHhAAAgEEAwEAAAAAAAAAAAAAAAQiAQMGoRMhMSP/xAAWAQEBAQAAAAAAAAAAAAAAAAAEBQb/xAAbEQABBQEBAAAAAAAAAAAAAAAAAQIDBAUSIf/aAAwDAQACEQMRAD8AzpLGfIaEaWM+Q0MkkF+oCNJBfqAaG04nZO5L4CLWM/OkNEapaQX46QIelpxtWbkvKH//2Q==',
      'base64',
    ),
    corners: [
      [0, 2, 0],
      [208, 11, 127],
      [16, 209, 84],
      [115, 121, 109],
    ],
    sum: 78878,
  },
  {
    name: 'progressive',
    bytes: Buffer.from(
      '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wgARCAAMABQDASEAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAQFBv/EABgBAAIDAAAAAAAAAAAAAAAAAAMFAAQG/9oADAMBAAIQAxAAAAHOUoR8O7aorsS+WHf/xAAZEAEAAwEBAAAAAAAAAAAAAAACAAEEESH/2gAIAQEAAQUCGaDNKzeAGAGUDz//xAAZEQADAQEBAAAAAAAAAAAAAAAAAQQCESH/2gAIAQMBAT8BkpFT4SbYtvh//8QAGBEBAQADAAAAAAAAAAAAAAAAAAIBERL/2gAIAQIBAT8Bi3aMtv/EABQQAQAAAAAAAAAAAAAAAAAAACD/2gAIAQEABj8CX//EABcQAQEBAQAAAAAAAAAAAAAAAABRYUH/2gAIAQEAAT8hxYokSJxH/9oADAMBAAIAAwAAABCCcf/EABcRAQEBAQAAAAAAAAAAAAAAACEAETH/2gAIAQMBAT8Q4MBhtnN//8QAFREBAQAAAAAAAAAAAAAAAAAAAAH/2gAIAQIBAT8QEKpT/8QAGBABAAMBAAAAAAAAAAAAAAAAACExwRH/2gAIAQEAAT8QqyqyiZRmM8x//9k=',
      'base64',
    ),
    corners: [
      [4, 0, 0],
      [220, 4, 127],
      [4, 216, 80],
      [115, 121, 111],
    ],
    sum: 78817,
  },
  {
    name: 'restarts',
    bytes: Buffer.from(
      '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAMABQDAREAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAwYHBf/EAB4QAAEDBQEBAAAAAAAAAAAAAAQABiIBAyExoRMj/8QAGAEAAwEBAAAAAAAAAAAAAAAAAwQFBgf/xAAgEQACAQMEAwAAAAAAAAAAAAAAAgMBBAURMVFhEiEi/90ABAAB/9oADAMBAAIRAxEAPwCdBNnUOISTClpkuz//0F0Js6hxFSYuWmS7P//RHabPzpDiepN6N5Hkvnc//9LQCAHxBR0apz60nfk//9NzCAHxBJI9SLaTvyf/1KhaAH86QQ6NXQPHO/juf//Z',
      'base64',
    ),
    corners: [
      [3, 0, 0],
      [226, 1, 131],
      [2, 217, 79],
      [117, 120, 109],
    ],
    sum: 78875,
  },
  {
    name: 'grey',
    bytes: Buffer.from(
      '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/wAALCAAMABQBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABQYH/8QAHhAAAQMFAQEAAAAAAAAAAAAABAAGIgEDITGhEyP/2gAIAQEAAD8AzoJs6hxUYTZ1DietNn50hxKBAD4gqMIAfEE7aAH86QX/2Q==',
      'base64',
    ),
    corners: [
      [0, 0, 0],
      [83, 83, 83],
      [137, 137, 137],
      [118, 118, 118],
    ],
    sum: 79575,
  },
  {
    name: 'rgb',
    bytes: Buffer.from(
      '/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAIBgYHBgUIBwcHCQkICgwUDQwLCwwZEhMPFB0aHx4dGhwcICQuJyAiLCMcHCg3KSwwMTQ0NB8nOT04MjwuMzQy/8AAEQgADAAUA1IRAEcRAEIRAP/EABcAAAMBAAAAAAAAAAAAAAAAAAAGBwj/xAAlEAABAgILAQEAAAAAAAAAAAAABCIFBgECAxUWMjRCU2OhEyP/2gAMA1IARwBCAAA/AJTLewRcBdXhMIVCsrSwS3sDAXV4PEKhWVpUUGkqhgLq8G9NCvxoaZOlvYaHudFxCPCk1m1pYJb2Bc6LiHiFJrNrSooNJVC50XEOCZNZ/Ghp/9k=',
      'base64',
    ),
    corners: [
      [1, 0, 1],
      [226, 0, 132],
      [1, 218, 76],
      [121, 121, 113],
    ],
    sum: 78886,
  },
];

export const CMYK_JPEG: Buffer = Buffer.from(
  '/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAIBgYHBgUIBwcHCQkICgwUDQwLCwwZEhMPFB0aHx4dGhwcICQuJyAiLCMcHCg3KSwwMTQ0NB8nOT04MjwuMzQy/8AAFAgADAAUBEMRAE0RAFkRAEsRAP/EABcAAQEBAQAAAAAAAAAAAAAAAAAHBgj/xAAlEAABAgILAQEAAAAAAAAAAAAABCIFBgECAxUWMjRCU2OhEyP/2gAOBEMATQBZAEsAAD8AlMt7DC4C6vCYQqFZWl/LBLewYC6vDcQqFZWgqKDSVRgLq8NemhX40NBydLew6HudFxGHhSaza0FglvYLnRcRuIUms2tBUUGkqi50XEbBMms/jQ0H/9k=',
  'base64',
);

export function smallJpeg(name: string): SmallJpeg {
  const found = SMALL_JPEGS.find((jpeg) => jpeg.name === name);
  assert.ok(found !== undefined);
  return found;
}

export function pixelAt({ width, data }: Pixels, x: number, y: number): number[] {
  return [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)];
}

/** Another decoder may differ by a level or two; the same libjpeg-turbo does not differ at all. */
export function assertDecoded(pixels: Pixels, { corners, sum }: SmallJpeg): void {
  assert.deepEqual([pixels.width, pixels.height, pixels.data.length], [20, 12, 720]);
  for (const [index, [x, y]] of (
    [
      [0, 0],
      [19, 0],
      [0, 11],
      [10, 6],
    ] as const
  ).entries()) {
    for (const [channel, level] of pixelAt(pixels, x, y).entries()) {
      assert.ok(Math.abs(level - (corners[index]?.[channel] ?? -9)) <= 2, `${x},${y}: ${level}`);
    }
  }
  assert.ok(Math.abs(pixels.data.reduce((total, level) => total + level, 0) - sum) / 720 < 0.5);
}
