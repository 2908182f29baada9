"""Voice activity detection: Silero VAD at 16 kHz with the weights that the `silero-vad` package ships."""

import importlib.util
import pathlib

import torch
import torch.nn.functional as F
from signals import generator, samples, voice
from torch import nn


class SileroVAD(nn.Module):
    """One step of 512 samples with 64 samples of context; the LSTM's state goes in and comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, 1, 1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, 1)
        self.conv4 = nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, x, h, c):
        x = self.stft_conv(F.pad(x, (0, 64), mode="reflect").unsqueeze(1))
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = F.relu(conv(x))
        h, c = self.lstm_cell(x.squeeze(-1), (h, c))
        y = torch.sigmoid(self.final_conv(F.relu(h.unsqueeze(-1))))
        return y.squeeze(1), h, c


def weights() -> dict[str, torch.Tensor]:
    """The trained weights of the installed package."""
    from safetensors.torch import load_file

    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("silero-vad is not installed: pip install --no-deps silero-vad")
    folder = pathlib.Path(spec.submodule_search_locations[0])
    return load_file(str(folder / "data/silero_vad_16k.safetensors"))


def step(net, g):
    """The inputs of a step in the middle of speech: real states, not noise."""
    audio = voice(512 * 6 + 64, g)
    h = c = torch.zeros(1, 128)
    for i in range(5):
        _, h, c = net(audio[:, i * 512 : i * 512 + 576], h, c)
    return audio[:, 5 * 512 :][:, :576], h, c


def network():
    net = SileroVAD().eval().requires_grad_(False)
    net.load_state_dict(weights())
    return net


def model():
    net = network()
    return net, step(net, generator(1236))


def calibration(n=32, seed=77):
    net = network()
    return samples(lambda g: step(net, g), n, seed)
