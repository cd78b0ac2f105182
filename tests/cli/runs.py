"""Manifests and model scripts of the command line's tests."""

PLAIN = """
apiVersion: agentrun.dev/v1alpha1
kind: AgentRun
metadata: {name: plain}
spec:
  prompt: "Write a file and read it."
  agents:
  - name: writer
    tools: ["workspace.*"]
  model: {name: scripted}
  pricing: {inputPerMTok: "3", outputPerMTok: "15"}
  toolServers:
  - {name: workspace, workspace: {}}
"""

PLAIN_SCRIPT = """
replies:
- match: {turn: 0}
  reply:
    text: "I write."
    tools:
    - {id: toolu_01, name: workspace__write_file, input: {path: a.txt, content: "hello \\u001b[31m"}}
  usage: {input: 100, output: 10}
- match: {turn: 1}
  reply:
    tools:
    - {id: toolu_02, name: workspace__read_file, input: {path: a.txt}}
  usage: {input: 200, output: 10}
- match: {turn: 2}
  reply: {text: "It says hello."}
  usage: {input: 300, output: 10}
"""

GATED = """
apiVersion: agentrun.dev/v1alpha1
kind: AgentRun
metadata: {name: gated}
spec:
  prompt: "Delete the file."
  agents:
  - name: cleaner
    tools: ["workspace.*"]
  model: {name: scripted}
  toolServers:
  - {name: workspace, workspace: {}}
  toolPolicies:
  - {tools: ["workspace.delete_file"], approval: Always, reason: "deleting is for ever"}
"""

GATED_SCRIPT = """
replies:
- match: {turn: 0}
  reply:
    tools:
    - {id: toolu_01, name: workspace__write_file, input: {path: a.txt, content: "x"}}
- match: {turn: 1}
  reply:
    tools:
    - {id: toolu_02, name: workspace__delete_file, input: {path: a.txt}}
- match: {turn: 2, contains: "denied"}
  reply: {text: "I was not allowed to."}
- match: {turn: 2}
  reply: {text: "It is gone."}
"""
