// Draws the rows of all panels of a page with one WebGL2 context.
//
// Browsers allow about 16 contexts per page and drop the oldest beyond that, and phones allow fewer. A page with many
// panels therefore shares one hidden canvas: a panel is drawn there and copied into its own 2-D canvas (a copy within
// the graphics card). The copy stays visible when the context is lost, and a brush is drawn on top of it.
"use strict";

const SCATTER_VERTEX_SHADER = `#version 300 es
precision highp float;
layout(location = 0) in vec3 point;
layout(location = 1) in vec4 color;
uniform mat3 rotation;
uniform vec2 target, scale;
uniform vec4 veil;               // color that unselected rows move to, and how far
uniform vec3 background;
uniform float perspective, size, alpha, fog, rim;
out vec4 shade;
out float radius;
void main() {
  vec3 q = rotation * point;
  float w = 1.0 - perspective * q.z;
  radius = 0.5 * size / w + rim; // the rim lies around the disc
  gl_PointSize = 2.0 * radius + 1.0;
  gl_Position = vec4((q.xy / w - target) * scale, -0.5 * q.z, 1.0);
  if (color.a == 0.0) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  vec3 seen = mix(color.rgb, veil.rgb, veil.a);
  shade = vec4(mix(seen, background, fog * smoothstep(0.8, -0.8, q.z)), color.a * alpha);
}`;

const SCATTER_FRAGMENT_SHADER = `#version 300 es
precision highp float;
in vec4 shade;
in float radius;
uniform vec3 background;
uniform float rim, least; // least: coverage from which a pixel counts; depth is all or nothing
out vec4 pixel;
void main() {
  float away = length(gl_PointCoord - 0.5) * (2.0 * radius + 1.0);
  float cover = clamp(radius + 0.5 - away, 0.0, 1.0);
  if (cover < least) discard;
  float edge = rim > 0.0 ? clamp(away - radius + rim + 0.5, 0.0, 1.0) : 0.0;
  float opacity = shade.a * cover;
  pixel = vec4(mix(shade.rgb, background, edge) * opacity, opacity);
}`;

const SCATTER_RESTORE = 4000; // milliseconds within which browsers restore a context if they do at all

class ScatterGlPainter {
  // The painter of the page, or null where there is no WebGL2.
  static shared() {
    if (this.instance === undefined) {
      const canvas = document.createElement("canvas");
      const options = { alpha: false, antialias: false, depth: true, powerPreference: "high-performance" };
      const gl = canvas.getContext("webgl2", options);
      try {
        this.instance = gl ? new ScatterGlPainter(canvas, gl) : null;
      } catch (error) {
        console.warn(error.message); // a driver that refuses the shaders is like none
        this.instance = null;
      }
    }
    return this.instance;
  }

  constructor(canvas, gl) {
    this.canvas = canvas;
    this.gl = gl;
    this.pointLimit = Infinity;
    this.panels = new Map(); // panel -> its buffers
    this.prepare();
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault(); // else the browser never restores it
      this.lost = true;
      this.waiting = setTimeout(() => this.giveUp(), SCATTER_RESTORE);
    });
    canvas.addEventListener("webglcontextrestored", () => {
      clearTimeout(this.waiting);
      this.prepare();
      for (const panel of this.panels.keys()) panel.redraw(); // buffers are filled again when drawn
    });
  }

  prepare() {
    const { gl } = this;
    this.lost = gl.isContextLost();
    for (const panel of this.panels.keys()) this.panels.set(panel, null);
    if (this.lost) return;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, SCATTER_VERTEX_SHADER], [gl.FRAGMENT_SHADER, SCATTER_FRAGMENT_SHADER]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`The scatter shaders do not compile: ${gl.getProgramInfoLog(program)}`);
    }
    gl.useProgram(program);
    this.at = {};
    for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
      const { name } = gl.getActiveUniform(program, i);
      this.at[name] = gl.getUniformLocation(program, name);
    }
    gl.enable(gl.BLEND);
    gl.enable(gl.SCISSOR_TEST);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  // A context that does not come back: the panels go on without.
  giveUp() {
    ScatterGlPainter.instance = null;
    const plain = new ScatterPlainPainter();
    for (const panel of this.panels.keys()) panel.usePainter(plain);
    this.panels.clear();
  }

  add(panel) {
    this.panels.set(panel, null);
  }

  remove(panel) {
    const buffers = this.panels.get(panel);
    this.panels.delete(panel);
    if (!buffers || this.lost) return;
    this.gl.deleteVertexArray(buffers.array);
    for (const buffer of [buffers.points, buffers.colors, buffers.order]) this.gl.deleteBuffer(buffer);
  }

  // Buffers of a panel with what has changed since the last frame sent to the card, each by one call.
  upload(panel) {
    const { gl } = this;
    let buffers = this.panels.get(panel);
    const stale = buffers ? panel.stale : { points: true, colors: true, selection: true };
    if (!buffers) {
      buffers = { array: gl.createVertexArray(), points: gl.createBuffer(), colors: gl.createBuffer(), order: gl.createBuffer() };
      this.panels.set(panel, buffers);
    }
    gl.bindVertexArray(buffers.array);
    if (stale.points) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.points);
      gl.bufferData(gl.ARRAY_BUFFER, panel.rows.unitPoints(panel.camera), gl.STATIC_DRAW);
      gl.enableVertexAttribArray(0);
      gl.vertexAttribPointer(0, panel.camera.dimension, gl.FLOAT, false, 0, 0);
    }
    if (stale.colors) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.colors);
      gl.bufferData(gl.ARRAY_BUFFER, panel.rows.orderedColors(), gl.DYNAMIC_DRAW);
      gl.enableVertexAttribArray(1);
      gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    }
    if (stale.selection && panel.rows.selection) {
      const { order, unselected } = panel.rows.selectedLast();
      buffers.unselected = unselected;
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.order);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.DYNAMIC_DRAW);
    }
    panel.stale = { points: false, colors: false, selection: false };
    return buffers;
  }

  // Draw a panel into the 2-D context of its size in device pixels; false while the context is lost.
  draw(panel, context, look) {
    const { gl } = this;
    if (this.lost) return false;
    const [width, height] = [context.canvas.width, context.canvas.height];
    if (this.canvas.width < width) this.canvas.width = width;
    if (this.canvas.height < height) this.canvas.height = height;
    const buffers = this.upload(panel);
    gl.viewport(0, 0, width, height);
    gl.scissor(0, 0, width, height);
    gl.clearColor(...look.background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.setCamera(panel.camera, look);
    const n = panel.rows.order.length;
    if (!panel.rows.selection) {
      this.setDisc(look, look.plain, 0);
      gl.drawArrays(gl.POINTS, 0, n);
    } else {
      this.setDisc(look, look.faded, look.veilStrength);
      gl.drawElements(gl.POINTS, buffers.unselected, gl.UNSIGNED_INT, 0);
      this.setDisc(look, look.chosen, 0);
      gl.clear(gl.DEPTH_BUFFER_BIT); // selected rows are seen through the others
      gl.drawElements(gl.POINTS, n - buffers.unselected, gl.UNSIGNED_INT, 4 * buffers.unselected);
    }
    context.drawImage(this.canvas, 0, this.canvas.height - height, width, height, 0, 0, width, height);
    return true;
  }

  setCamera(camera, look) {
    const { gl, at } = this;
    if (camera.dimension === 3) gl.enable(gl.DEPTH_TEST);
    else gl.disable(gl.DEPTH_TEST);
    gl.uniformMatrix3fv(at.rotation, true, camera.rotation);
    gl.uniform2f(at.target, ...camera.target);
    gl.uniform2f(at.scale, (2 * camera.scale) / camera.width, (2 * camera.scale) / camera.height);
    gl.uniform1f(at.perspective, camera.perspective);
    gl.uniform3f(at.background, ...look.background);
    gl.uniform1f(at.fog, look.fog);
    gl.uniform1f(at.least, camera.dimension === 3 ? 0.4 : 0.01);
  }

  setDisc(look, disc, veil) {
    const { gl, at } = this;
    gl.uniform1f(at.size, disc.size * look.ratio);
    gl.uniform1f(at.alpha, disc.alpha);
    gl.uniform1f(at.rim, disc.rim * look.ratio);
    gl.uniform4f(at.veil, ...look.veil, veil);
  }
}
